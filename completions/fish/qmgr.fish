complete -c qmgr -s c -d 'One command, or several with ; between them: "set queue gpu enabled = True"' -r
complete -c qmgr -s a -d 'Stop at the first error of commands that are read'
complete -c qmgr -s e -d 'Print each command before it is done'
complete -c qmgr -s n -d 'Only read the commands, to see whether they are well formed'
complete -c qmgr -s z -d 'Say nothing of errors'
