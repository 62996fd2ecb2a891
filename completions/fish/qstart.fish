complete --keep-order --exclusive --command qstart --arguments "(_LANAI_COMPLETE=fish qstart -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
