complete -c pbsnodes -s F -d 'The format: json or dsv' -r
complete -c pbsnodes -s D -d 'With -F dsv: what sets the values apart' -r
complete -c pbsnodes -s C -d 'Set the comment; an empty one clears it' -r
complete -c pbsnodes -s s -d 'The server' -r
complete -c pbsnodes -s a -d 'All hosts; with -v, all nodes'
complete -c pbsnodes -s v -d 'Nodes, each for itself, where a host presents several'
complete -c pbsnodes -s H -d 'Hosts, each with all its nodes'
complete -c pbsnodes -s l -d 'Nodes that are offline or down, with their comments'
complete -c pbsnodes -s S -d 'A summary, one line for each'
complete -c pbsnodes -s j -d 'With -S: of jobs, and of what is free'
complete -c pbsnodes -s L -d 'With -S: names are not cut'
complete -c pbsnodes -s o -d 'Mark offline: no job starts there any more'
complete -c pbsnodes -s r -d 'Mark online again'
complete -c pbsnodes -l gone -d 'Declare hosts gone for good: their jobs are requeued, or terminated if they are not rerunnable'
complete -c pbsnodes -s q -d 'Say nothing about what goes wrong'
