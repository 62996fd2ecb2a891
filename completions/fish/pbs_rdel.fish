complete -c pbs_rdel -s q -d 'Server: @server' -r
