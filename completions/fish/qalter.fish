complete --keep-order --exclusive --command qalter --arguments "(_LANAI_COMPLETE=fish qalter -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
