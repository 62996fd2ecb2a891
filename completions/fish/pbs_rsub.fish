complete -c pbs_rsub -s R -d 'When it begins: [[[[CC]YY]MM]DD]hhmm[.SS], local time' -r
complete -c pbs_rsub -s E -d 'When it ends, likewise' -r
complete -c pbs_rsub -s D -d 'How long it lasts: HH:MM:SS, or seconds' -r
complete -c pbs_rsub -s l -d 'Resources: select=N:ncpus=4:mem=8gb, place=scatter; sizes take b, kb, mb, gb, tb, pb' -r
complete -c pbs_rsub -s N -d 'Name of the reservation' -r
complete -c pbs_rsub -s U -d 'Who may use it besides its owner: user[@host],..., with - in front who may not' -r
complete -c pbs_rsub -s G -d 'Members of these groups may use it' -r
complete -c pbs_rsub -s H -d 'Kept and shown: hosts from which jobs may come' -r
complete -c pbs_rsub -s r -d 'It comes again: FREQ=HOURLY, DAILY or WEEKLY, with INTERVAL, BYDAY=MO,... and COUNT or UNTIL, joined by semicolons. The variable PBS_TZID must name the time zone: the server\'s own, or UTC' -r
complete -c pbs_rsub -s I -d 'Say whether it can be had; it is known at once, so that no number of seconds matters' -r
complete -c pbs_rsub -s m -d 'Kept and shown: mail on abort, begin, end, confirmation, by letters of a b e c, or n' -r
complete -c pbs_rsub -s M -d 'Kept and shown: whom to mail' -r
complete -c pbs_rsub -s u -d 'Kept and shown' -r
complete -c pbs_rsub -s g -d 'Kept and shown' -r
complete -c pbs_rsub -s q -d 'The server: @server' -r
complete -c pbs_rsub -l hosts -d 'The hosts named as operands as a whole, whatever runs there: for maintenance, by operators'
complete -c pbs_rsub -l job -d 'The nodes of the running job named as operand, until its walltime is over; it goes into the reservation'
