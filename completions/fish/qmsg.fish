complete --keep-order --exclusive --command qmsg --arguments "(_LANAI_COMPLETE=fish qmsg -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
