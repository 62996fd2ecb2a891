complete --keep-order --exclusive --command qterm --arguments "(_LANAI_COMPLETE=fish qterm -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
