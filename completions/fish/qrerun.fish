complete -c qrerun -s W -d 'force: at once, whatever the node says' -r
