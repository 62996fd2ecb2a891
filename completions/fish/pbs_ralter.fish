complete -c pbs_ralter -s R -d 'When it begins: [[[[CC]YY]MM]DD]hhmm[.SS], local time; not once it has begun' -r
complete -c pbs_ralter -s E -d 'When it ends, likewise' -r
complete -c pbs_ralter -s D -d 'How long it lasts: HH:MM:SS, or seconds' -r
complete -c pbs_ralter -s l -d 'Resources: select=N:ncpus=4; not once it has begun' -r
complete -c pbs_ralter -s N -d 'Name of the reservation' -r
complete -c pbs_ralter -s U -d 'Who may use it: a new list, or +user and -user for who is added and taken out' -r
complete -c pbs_ralter -s G -d 'Members of which groups may, likewise' -r
complete -c pbs_ralter -s I -d 'Say whether it can be had; it is known at once, so that no number of seconds matters' -r
complete -c pbs_ralter -s m -d 'Kept and shown: mail points' -r
complete -c pbs_ralter -s M -d 'Kept and shown: whom to mail' -r
complete -c pbs_ralter -s W -d 'force: whatever jobs and other reservations are in the way; for operators' -r
