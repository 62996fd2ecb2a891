complete -c qselect -s a -d 'Not to be started before: [[[[CC]YY]MM]DD]hhmm[.SS]' -r
complete -c qselect -s A -d 'Of this account' -r
complete -c qselect -s c -d 'With this checkpointing: n, s, c, w or u' -r
complete -c qselect -s h -d 'With exactly these holds: letters of u o s p, or n' -r
complete -c qselect -s l -d 'That asked for these resources: ncpus.gt.4,walltime.le.1:00:00' -r
complete -c qselect -s N -d 'Of this name' -r
complete -c qselect -s p -d 'With this priority' -r
complete -c qselect -s P -d 'Of this project' -r
complete -c qselect -s q -d 'In this queue' -r
complete -c qselect -s r -d 'That may be run again: y or n' -r
complete -c qselect -s s -d 'In these states: letters, as RQ' -r
complete -c qselect -s t -d 'By a moment of its life: a c e g m q s t for Execution_Time, ctime, etime, eligible_time, mtime, qtime, stime, estimated start; twice for a range' -r
complete -c qselect -s u -d 'Of these users' -r
complete -c qselect -s H -d 'Finished jobs'
complete -c qselect -s J -d 'Job arrays only'
complete -c qselect -s T -d 'Subjobs of job arrays too'
complete -c qselect -s x -d 'Finished jobs too'
