complete -c qmgr -s c -d 'Commands, separated by semicolons, such as "set queue gpu enabled = True"' -r
complete -c qmgr -s a -d 'Stop at the first error in commands from standard input'
complete -c qmgr -s e -d 'Print each command before running it'
complete -c qmgr -s n -d 'Only check the syntax of the commands'
complete -c qmgr -s z -d 'Do not print error messages'
