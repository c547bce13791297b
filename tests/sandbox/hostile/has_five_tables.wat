;; expect: 1.6
;; role: sampler
(table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) 
