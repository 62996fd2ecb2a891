complete -c schedd -l preset -d 'Scheduling preset of the nested queue (default: first come, first served)' -r -f -a "hybrid\t''
qube\t''
maui\t''
it4i\t''
ytsaurus\t''
flux\t''"
complete -c schedd -l config -d 'Configuration file (lanai.toml) of the nested queue' -r -F
complete -c schedd -l queue -d 'Move waiting jobs of the job\'s owner from this queue of the outer schedd to the nested queue' -r
complete -c schedd -s F -l format -d 'Output format of --check: text (a valid lanai.toml) or json' -r -f -a "text\t''
json\t''"
complete -c schedd -l foreground -d 'Stay in the foreground and log to standard error'
complete -c schedd -l ready -d 'Report readiness on standard output, then close it'
complete -c schedd -l stay -d 'Do not exit when idle: for a service that starts schedd. The schedd of a shared installation never exits when idle'
complete -c schedd -l status -d 'Show the status of the running schedd'
complete -c schedd -l stop -d 'Stop the running schedd; running jobs continue, and the next schedd takes them over'
complete -c schedd -l check -d 'Validate the configuration, and print each setting with its value and origin: preset, line of the file, or qmgr'
complete -c schedd -l nested -d 'Inside a job: run a private queue on the job\'s resources until COMMAND and all jobs of the queue have finished or, without COMMAND, until the queue has been idle for a while'
complete -c schedd -s h -l help -d 'Print help (see more with \'--help\')'
complete -c schedd -s V -l version -d 'Print version'
