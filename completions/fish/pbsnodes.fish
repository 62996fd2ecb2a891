complete -c pbsnodes -s F -d 'Output format: json or dsv' -r
complete -c pbsnodes -s D -d 'Delimiter between values, with -F dsv' -r
complete -c pbsnodes -s C -d 'Set the comment of nodes; an empty text deletes the comment' -r
complete -c pbsnodes -s s -d 'Name of the server' -r
complete -c pbsnodes -s a -d 'Show all hosts; with -v, all nodes'
complete -c pbsnodes -s v -d 'Show each node of a host that has several nodes'
complete -c pbsnodes -s H -d 'Show each HOST with all its nodes'
complete -c pbsnodes -s l -d 'List nodes that are offline or down, with their comments'
complete -c pbsnodes -s S -d 'Show a summary: one line for each host or node'
complete -c pbsnodes -s j -d 'With -S: show jobs and free resources'
complete -c pbsnodes -s L -d 'With -S: do not cut names and states to the width of their columns. Numbers, comments and lists of jobs are never cut'
complete -c pbsnodes -s o -d 'Mark nodes offline: no further job starts on them'
complete -c pbsnodes -s r -d 'Clear the offline state of nodes'
complete -c pbsnodes -l gone -d 'Declare that hosts which do not respond are lost: requeue the jobs on them, or end jobs that are not rerunnable (managers only)'
complete -c pbsnodes -s q -d 'Do not print error messages about nodes'
