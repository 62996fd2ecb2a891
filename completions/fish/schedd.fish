complete -c schedd -l preset -d 'Whose habits the nested queue has, instead of first come, first served' -r -f -a "hybrid\t''
qube\t''
maui\t''
it4i\t''
ytsaurus\t''
flux\t''"
complete -c schedd -l config -d 'The lanai.toml of the nested queue' -r -F
complete -c schedd -l queue -d 'A queue of the schedd outside: jobs of its owner that wait there are moved into the nested queue' -r
complete -c schedd -s F -l format -d 'How --check prints: text, which is a lanai.toml again, or json' -r -f -a "text\t''
json\t''"
complete -c schedd -l foreground -d 'Stay in the foreground and log to standard error'
complete -c schedd -l ready -d 'Say on standard output when ready, then be silent there'
complete -c schedd -l status -d 'Ask the running schedd how it is'
complete -c schedd -l stop -d 'Stop the running schedd; running jobs go on, and the next schedd takes them over'
complete -c schedd -l check -d 'Read the configuration, say whether it is good, and print what holds: every key of policy and cycle with its value and where that comes from: the preset, a line of the file, or qmgr'
complete -c schedd -l nested -d 'Within a job: serve a private queue on what the job was given, until COMMAND and the jobs it submits are over, or, without one, until nothing has come for a while'
complete -c schedd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c schedd -s V -l version -d 'Print version'
