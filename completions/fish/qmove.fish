complete --keep-order --exclusive --command qmove --arguments "(_LANAI_COMPLETE=fish qmove -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
