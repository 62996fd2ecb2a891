complete --keep-order --exclusive --command qstop --arguments "(_LANAI_COMPLETE=fish qstop -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
