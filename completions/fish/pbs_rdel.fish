complete --keep-order --exclusive --command pbs_rdel --arguments "(_LANAI_COMPLETE=fish pbs_rdel -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
