complete --keep-order --exclusive --command pbs_ralter --arguments "(_LANAI_COMPLETE=fish pbs_ralter -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
