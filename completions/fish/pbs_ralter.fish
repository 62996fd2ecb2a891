complete -c pbs_ralter -s R -d 'Start time: [[[[CC]YY]MM]DD]hhmm[.SS], local time; only before the start' -r
complete -c pbs_ralter -s E -d 'End time, in the same form' -r
complete -c pbs_ralter -s D -d 'Duration: HH:MM:SS, or seconds' -r
complete -c pbs_ralter -s l -d 'Resources: select=N:ncpus=4; only before the start' -r
complete -c pbs_ralter -s N -d 'Name of the reservation' -r
complete -c pbs_ralter -s U -d 'Permitted users: a new list, or +user and -user to add and remove users' -r
complete -c pbs_ralter -s G -d 'Permitted groups, in the same form' -r
complete -c pbs_ralter -s I -d 'Accepted for compatibility; the answer is immediate' -r
complete -c pbs_ralter -s m -d 'Mail points; stored and shown only' -r
complete -c pbs_ralter -s M -d 'Recipients of mail; stored and shown only' -r
complete -c pbs_ralter -s W -d 'force: ignore conflicting jobs and reservations (operators only)' -r
