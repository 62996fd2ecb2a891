complete --keep-order --exclusive --command qrun --arguments "(_LANAI_COMPLETE=fish qrun -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
