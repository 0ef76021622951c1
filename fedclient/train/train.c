typedef int fedtrain_empty;
