complete -c tracejob -s c -d 'Maximum number of times that a repeated message is shown' -r
complete -c tracejob -s n -d 'Number of days to look back' -r
complete -c tracejob -s w -d 'Wrap lines at this column (default: no wrapping)' -r
complete -c tracejob -s f -d 'Omit messages of this type: job, admin, sched, error or job_usage; may be repeated' -r
complete -c tracejob -s p -d 'Accepted for compatibility; has no effect, because there are no log files' -r
complete -c tracejob -s F -d 'Output format: json' -r
complete -c tracejob -s a -d 'Omit accounting records: resources requested, allocated and used'
complete -c tracejob -s s -d 'Omit events of the server, such as requests, dependencies and the end of the job'
complete -c tracejob -s l -d 'Omit events of the scheduler: starts, changes of the planned start, and why the job waits'
complete -c tracejob -s m -d 'Omit events of the nodes: launch, suspension, end and usage of attempts, and failures'
complete -c tracejob -s v -d 'Accepted for compatibility; has no effect'
complete -c tracejob -s z -d 'Show all repeated messages, without the limit of -c'
