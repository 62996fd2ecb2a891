complete -c qstat -s u -d 'Jobs of these users: exact names, the host as in Job_Owner' -r
complete -c qstat -s F -d 'With -f: the format of the attributes, json or dsv' -r
complete -c qstat -s D -d 'With -F dsv: what sets the values apart' -r
complete -c qstat -s l -d 'With --holes: for how many of these, select=..., place=... as qsub has them; else for processors' -r
complete -c qstat -s W -d 'Not accepted, as in PBS' -r
complete -c qstat -s a -d 'All jobs, with what they asked for'
complete -c qstat -s i -d 'Jobs that are not running'
complete -c qstat -s r -d 'Running jobs'
complete -c qstat -s H -d 'Finished jobs'
complete -c qstat -s x -d 'Finished jobs too'
complete -c qstat -s n -d 'Add the hosts that each job runs on'
complete -c qstat -s s -d 'Add the comment of each job: why it does not start, where it runs, how it ended'
complete -c qstat -s 1 -d 'Put hosts or comment on the job\'s line; with -f, each attribute on one line'
complete -c qstat -s T -d 'The promised start instead of the time used'
complete -c qstat -s G -d 'Memory in gigabytes'
complete -c qstat -s M -d 'Memory in megawords of 8 bytes each'
complete -c qstat -s w -d 'Wide: 120 columns; with -f, each attribute on one line'
complete -c qstat -s f -d 'All attributes of each job, queue or server'
complete -c qstat -s p -d 'Percent of the requested time that is used, instead of the time'
complete -c qstat -s J -d 'Job arrays only'
complete -c qstat -s t -d 'Show the subjobs of job arrays too'
complete -c qstat -s E -d 'Only job ids are given'
complete -c qstat -s Q -d 'Queues, with their jobs by state'
complete -c qstat -s q -d 'Queues, with their limits'
complete -c qstat -s B -d 'The server'
complete -c qstat -l watch -d 'Show again whenever what is shown has changed, until all jobs named by id are over, or Ctrl-C. JSON is then one document on each line'
complete -c qstat -l start -d 'When each waiting job starts, and where, if jobs end at their walltimes; with -F json too'
complete -c qstat -l holes -d 'What is free beside all promises, and for how long; with -F json too'
complete -c qstat -l why -d 'Why each of these jobs waits, stage by stage, and until when; with -F json too'
