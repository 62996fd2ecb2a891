complete --keep-order --exclusive --command qsim --arguments "(_LANAI_COMPLETE=fish qsim -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
