complete --keep-order --exclusive --command qenable --arguments "(_LANAI_COMPLETE=fish qenable -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
