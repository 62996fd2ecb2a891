complete -c tracejob -s c -d 'How often the same words are shown' -r
complete -c tracejob -s n -d 'How many days back' -r
complete -c tracejob -s w -d 'Columns after which a line is broken; never if not given' -r
complete -c tracejob -s f -d 'Leave out lines of a sort: job, admin, sched, error or job_usage; may be given several times' -r
complete -c tracejob -s p -d 'Accepted, without effect: there are no log files to be found' -r
complete -c tracejob -s F -d 'The format: json' -r
complete -c tracejob -s a -d 'Leave out accounting: what was asked for, given and used'
complete -c tracejob -s s -d 'Leave out the server: what was asked of it'
complete -c tracejob -s l -d 'Leave out the scheduler: what it decided'
complete -c tracejob -s m -d 'Leave out the nodes: what became of the job there'
complete -c tracejob -s v -d 'Accepted, without effect: all there is to tell is told'
complete -c tracejob -s z -d 'Show also what was said too often'
