complete -c qsig -s s -d 'The signal: a name, with or without SIG, or a number, SIGTERM if not given; or suspend, resume, admin-suspend, admin-resume' -r
