complete -c qselect -s a -d 'Begin time: [[[[CC]YY]MM]DD]hhmm[.SS]' -r
complete -c qselect -s A -d 'Account of the job' -r
complete -c qselect -s c -d 'Checkpoint attribute: n, s, c, w, u, or an interval such as c=5' -r
complete -c qselect -s h -d 'Exactly these holds: letters of u o s p, or n' -r
complete -c qselect -s l -d 'Requested resources, such as ncpus.gt.4,walltime.le.1:00:00' -r
complete -c qselect -s N -d 'Name of the job' -r
complete -c qselect -s p -d 'Priority of the job' -r
complete -c qselect -s P -d 'Project of the job' -r
complete -c qselect -s q -d 'Queue of the job' -r
complete -c qselect -s r -d 'Whether the job is rerunnable: y or n' -r
complete -c qselect -s s -d 'Job states, as letters such as RQ' -r
complete -c qselect -s t -d 'Time, with a letter for the attribute: a (Execution_Time), c (ctime), e (etime), m (mtime), q (qtime), s (stime) or t (planned start); or g (eligible_time) with a duration, HH:MM:SS or seconds. Give -t twice for a range' -r
complete -c qselect -s u -d 'Owners of the jobs' -r
complete -c qselect -s H -d 'Finished jobs only'
complete -c qselect -s J -d 'Job arrays only'
complete -c qselect -s T -d 'Include the subjobs of job arrays'
complete -c qselect -s x -d 'Include finished jobs'
