complete --keep-order --exclusive --command qmgr --arguments "(_LANAI_COMPLETE=fish qmgr -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
