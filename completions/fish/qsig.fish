complete --keep-order --exclusive --command qsig --arguments "(_LANAI_COMPLETE=fish qsig -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
