complete --keep-order --exclusive --command qdisable --arguments "(_LANAI_COMPLETE=fish qdisable -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
