complete --keep-order --exclusive --command qdel --arguments "(_LANAI_COMPLETE=fish qdel -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
