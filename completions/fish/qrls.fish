complete --keep-order --exclusive --command qrls --arguments "(_LANAI_COMPLETE=fish qrls -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
