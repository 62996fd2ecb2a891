complete --keep-order --exclusive --command pbsdsh --arguments "(_LANAI_COMPLETE=fish pbsdsh -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
