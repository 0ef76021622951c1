typedef int fedserver_empty;
