# team
