complete --keep-order --exclusive --command qhold --arguments "(_LANAI_COMPLETE=fish qhold -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
