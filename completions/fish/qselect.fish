complete --keep-order --exclusive --command qselect --arguments "(_LANAI_COMPLETE=fish qselect -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
