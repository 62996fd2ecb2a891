complete --keep-order --exclusive --command pbs_rstat --arguments "(_LANAI_COMPLETE=fish pbs_rstat -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
