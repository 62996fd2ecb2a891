complete -c pbs_rdel -s q -d 'The server: @server' -r
