complete --keep-order --exclusive --command qstat --arguments "(_LANAI_COMPLETE=fish qstat -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
