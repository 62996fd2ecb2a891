complete -c pbs_rdel -s q -d 'Server of the reservations: @server' -r
