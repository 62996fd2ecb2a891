complete --keep-order --exclusive --command qrerun --arguments "(_LANAI_COMPLETE=fish qrerun -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
