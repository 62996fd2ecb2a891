complete -c schedd -s F -l format -d 'How --check prints: text, which is a lanai.toml again, or json' -r -f -a "text\t''
json\t''"
complete -c schedd -l foreground -d 'Stay in the foreground and log to standard error'
complete -c schedd -l ready -d 'Say on standard output when ready, then be silent there'
complete -c schedd -l status -d 'Ask the running schedd how it is'
complete -c schedd -l stop -d 'Stop the running schedd; running jobs go on, and the next schedd takes them over'
complete -c schedd -l check -d 'Read the configuration, say whether it is good, and print what holds: every key of policy and cycle with its value and where that comes from: the preset, a line of the file, or qmgr'
complete -c schedd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c schedd -s V -l version -d 'Print version'
