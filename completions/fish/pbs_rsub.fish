complete --keep-order --exclusive --command pbs_rsub --arguments "(_LANAI_COMPLETE=fish pbs_rsub -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
