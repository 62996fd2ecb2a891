complete -c pbs_ralter -s R -d 'New start time: [[[[CC]YY]MM]DD]hhmm[.SS], local time; allowed until the reservation starts' -r
complete -c pbs_ralter -s E -d 'New end time, in the format of -R' -r
complete -c pbs_ralter -s D -d 'New duration: HH:MM:SS, or seconds' -r
complete -c pbs_ralter -s l -d 'New resources: select=N:ncpus=4; allowed until the reservation starts' -r
complete -c pbs_ralter -s N -d 'New name of the reservation' -r
complete -c pbs_ralter -s U -d 'Permitted users: a new list, or +user and -user to add and remove users' -r
complete -c pbs_ralter -s G -d 'Permitted groups: a new list, or +group and -group to add and remove groups' -r
complete -c pbs_ralter -s I -d 'Print the decision, CONFIRMED or DENIED; the number of seconds has no effect' -r
complete -c pbs_ralter -s m -d 'Mail points; stored and shown, but no mail is sent' -r
complete -c pbs_ralter -s M -d 'Recipients of mail; stored and shown, but no mail is sent' -r
complete -c pbs_ralter -s W -d 'force: ignore conflicting jobs and reservations (operators only)' -r
