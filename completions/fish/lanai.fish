complete --keep-order --exclusive --command lanai --arguments "(_LANAI_COMPLETE=fish lanai -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
