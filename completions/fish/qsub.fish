complete --keep-order --exclusive --command qsub --arguments "(_LANAI_COMPLETE=fish qsub -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
