complete -c pbs_rsub -s R -d 'Start time: [[[[CC]YY]MM]DD]hhmm[.SS], local time' -r
complete -c pbs_rsub -s E -d 'End time, in the format of -R' -r
complete -c pbs_rsub -s D -d 'Duration: HH:MM:SS, or seconds' -r
complete -c pbs_rsub -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter, ...' -r
complete -c pbs_rsub -s N -d 'Name of the reservation' -r
complete -c pbs_rsub -s U -d 'Permitted users in addition to the owner: user[@host],...; -user excludes a user' -r
complete -c pbs_rsub -s G -d 'Permitted groups' -r
complete -c pbs_rsub -s H -d 'Hosts from which jobs may be submitted; stored and shown, but not enforced' -r
complete -c pbs_rsub -s r -d 'Recurrence: FREQ=HOURLY, DAILY or WEEKLY, with INTERVAL, BYDAY=MO,... and COUNT or UNTIL, separated by semicolons. The variable PBS_TZID must name the time zone: the server\'s own, or UTC' -r
complete -c pbs_rsub -s I -d 'Print the decision, CONFIRMED or DENIED; or UNCONFIRMED if no node is available now and the reservation begins later. The number of seconds has no effect' -r
complete -c pbs_rsub -s m -d 'Mail points: n, or one or more of the letters a, b, c and e; stored and shown, but no mail is sent' -r
complete -c pbs_rsub -s M -d 'Recipients of mail; stored and shown, but no mail is sent' -r
complete -c pbs_rsub -s u -d 'Value of the attribute User_List; stored and shown, without effect' -r
complete -c pbs_rsub -s g -d 'Value of the attribute group_list; stored and shown, without effect' -r
complete -c pbs_rsub -s q -d 'Server: @server' -r
complete -c pbs_rsub -l hosts -d 'Maintenance: reserve the hosts given as operands, even if jobs run on them (operators only)'
complete -c pbs_rsub -l job -d 'Reserve the resources of a running job (the operand) until its walltime ends, and move the job into the reservation'
