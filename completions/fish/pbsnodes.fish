complete --keep-order --exclusive --command pbsnodes --arguments "(_LANAI_COMPLETE=fish pbsnodes -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token))"
