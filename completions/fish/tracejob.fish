complete --keep-order --exclusive --command tracejob --arguments "(_LANAI_COMPLETE=fish tracejob -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
