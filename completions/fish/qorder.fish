complete --keep-order --exclusive --command qorder --arguments "(_LANAI_COMPLETE=fish qorder -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
