complete --keep-order --exclusive --command qacct --arguments "(_LANAI_COMPLETE=fish qacct -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
